-- contract: of 0018_adopted_orders.sql
drop table order_searches;

-- The provider's ids of the refunds that an order had when the intent of this one was written; null when the provider's list
-- could not be read then, and for rows of before this column. An equal refund in it is not this one.
alter table order_operations add column refunds_before jsonb;

-- The items that a destination is not sent, so that they can be listed without reading all of them.
create index deliveries_skipped on deliveries (flow, finished_at desc) where skipped is not null;

-- alone: columns of deliveries get other names
alter table deliveries rename column delivered_body to delivered_digest;
alter table deliveries drop column delivered_fields;
-- What a delete needs of the body that was delivered last: `{"whole": …}`, or `{"part": …}` of a body that is too large.
alter table deliveries add column delivered_body jsonb;

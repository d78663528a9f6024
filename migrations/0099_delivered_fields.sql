-- What a delete needs of the body that was delivered last: the fields of its address, its body or its SQL key.
alter table deliveries add column delivered_fields jsonb;
-- An attempt may have arrived without an answer. Rows of before are not known to be untouched; new ones say false.
alter table deliveries add column may_have_arrived boolean not null default true;

-- The currency of the order, as the provider has said it first; null while it has not.
alter table orders add column currency text;

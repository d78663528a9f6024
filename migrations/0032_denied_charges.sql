-- How many charges of the box were answered as not charged, and refunds of the order as not made. A request begun before such
-- an answer must not be carried out after it: its till has been told that nothing happened.
alter table pos add column denied_charges integer not null default 0;
alter table orders add column denied_refunds integer not null default 0;

-- A time span with more payments than a search pages through is read in parts. Null: the whole span is one part.
alter table payment_reads add column part_begins_at timestamptz;
alter table payment_reads add column part_ends_at timestamptz;

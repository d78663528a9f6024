-- Why a destination is not sent an item that it was owed: its filter leaves it out, or its mapping gives nothing.
alter table deliveries add column skipped text;

alter table item_attempts drop constraint item_attempts_outcome_check;
alter table item_attempts add constraint item_attempts_outcome_check
  check (outcome in ('delivered', 'retry', 'failed', 'skipped')) not valid;

-- What somebody who looked said of an order whose outcome the machines could not find out. It moves no state: what the
-- provider shows later still counts.
alter table orders
  add column settled_as text check (settled_as in ('paid', 'not_paid')),
  add column settled_at timestamptz,
  add column settled_reason text;

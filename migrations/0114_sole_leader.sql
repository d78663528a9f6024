-- expand: the version before delivers as before, until a process of this version leads
-- Deliveries in hand of the process that leads the flows, for the figures of the others.
alter table leases add column in_hand integer not null default 0;

-- The version before has a lease of each destination, `deliver:…`. While a process of this version leads, it gets none, so that it sends
-- nothing. It sends again once nobody leads.
create function refuse_lease_of_destination() returns trigger language plpgsql as $$
declare
  leads_until timestamptz;
begin
  -- Waits for a process that is about to lead, which looks for such leases under a lock of this row.
  insert into leases (name, owner, deadline, token) values ('flows:leader', '', 'epoch', 0)
  on conflict (name) do nothing;
  select deadline into leads_until from leases where name = 'flows:leader' for share;
  -- A deadline far ahead is from before the clock was set back.
  if leads_until between clock_timestamp() and clock_timestamp() + interval '1 minute' then
    return null;
  end if;
  return new;
end
$$;
create trigger leases_of_destinations before insert or update on leases
  for each row when (new.name like 'deliver:%' and new.deadline > '1970-01-02')
  execute function refuse_lease_of_destination();

-- The closings of a place have neither overlap nor gap: each begins where another one ends, and no two begin at one moment.

alter table closings
  -- The time as it was requested; null in rows of before this migration. A business day is requested from midnight to midnight.
  add column requested_from timestamptz,
  add column requested_to timestamptz,
  -- Where the closing before it ends; null for the first one of a place.
  add column follows_at timestamptz check (follows_at = from_at),
  -- Where the next closing of the place begins. Null in rows of before this migration that others may overlap: none follows them.
  add column next_from timestamptz check (next_from = to_at);

-- Of the closings that exist, the one that ends last is followed. No change of theirs is reported to flows.
alter table closings disable trigger user;
update closings set next_from = to_at
  where not exists (
    select from closings later
    where later.client = closings.client and later.place = closings.place
      and (later.to_at, later.number) > (closings.to_at, closings.number));
alter table closings enable trigger user;

alter table closings
  add constraint closings_next_key unique (client, place, next_from),
  add constraint closings_follows_key unique (client, place, follows_at),
  add constraint closings_follows_fkey foreign key (client, place, follows_at)
    references closings (client, place, next_from);
create unique index closings_first on closings (client, place) where follows_at is null and next_from is not null;

-- Several closings of a day may be unsigned, such as those of two shifts.
drop index closings_unsigned;

-- In the database, so that a process of the version before keeps to it too.
create function follow_last_closing() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    if exists (select from closings where client = new.client and place = new.place) then
      new.follows_at := new.from_at;
    end if;
    new.next_from := new.to_at;
  elsif old.next_from is not null then
    new.next_from := new.to_at;
  end if;
  return new;
end
$$;

create trigger closings_follow before insert or update on closings
  for each row execute function follow_last_closing();

create or replace function refuse_closing_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    raise exception 'a closing is never deleted' using errcode = 'restrict_violation';
  end if;
  if old.state = 'signed' then
    raise exception 'closing % is signed', old.id using errcode = 'restrict_violation';
  end if;
  if new.id <> old.id or new.client <> old.client or new.place <> old.place or new.number <> old.number
    or new.business_day <> old.business_day or new.from_at <> old.from_at
    or new.follows_at is distinct from old.follows_at
    or (old.next_from is null and (new.next_from is not null or new.to_at <> old.to_at)) then
    raise exception 'closing % keeps its number, day and span', old.id using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;

-- expand: the version before goes on adding closings at the end only
-- Money may be found late, from before the first closing of a place. A closing of that time ends where the first one begins, so
-- the first one then follows it. That is all that changes in a signed row: its span, its count and its result stay.
alter table closings alter constraint closings_follows_fkey deferrable initially immediate;

create or replace function follow_last_closing() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    -- Without a first closing, this is the first one.
    if exists (select from closings where client = new.client and place = new.place and follows_at is null
      and next_from is not null) then
      new.follows_at := new.from_at;
    end if;
    new.next_from := new.to_at;
  elsif old.next_from is not null then
    new.next_from := new.to_at;
  end if;
  return new;
end
$$;

create or replace function refuse_closing_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    raise exception 'a closing is never deleted' using errcode = 'restrict_violation';
  end if;
  if old.follows_at is null and new.follows_at = old.from_at
    and to_jsonb(new) - 'follows_at' = to_jsonb(old) - 'follows_at' then
    return new;
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

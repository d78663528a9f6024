-- A day of a box or a store, compared with what the provider itself has.

-- An IANA name such as America/Argentina/Buenos_Aires; null: that of the account's country.
alter table stores add column time_zone text;

-- The country of a provider account, as the provider names it (MLA, MLB, …).
create table account_sites (
  mp_user_id bigint primary key,
  site_id text,
  read_at timestamptz not null
);

create table closings (
  id uuid primary key,
  client text not null references clients (name),
  -- Whose day it is: `caja:` or `sucursal:` and the ERP's id. Its numbers are 1, 2, 3 without a gap.
  place text not null,
  number integer not null check (number >= 1),
  caja_id text,
  sucursal_id text not null,
  mp_user_id bigint not null,
  business_day date not null,
  from_at timestamptz not null,
  to_at timestamptz not null,
  time_zone text not null,
  -- Cents by medium, as somebody counted them.
  declared jsonb not null default '{}',
  state text not null check (state in ('open', 'checking', 'agreed', 'differs', 'unverified', 'signed')),
  -- The state that was signed.
  result text check (result in ('agreed', 'differs', 'unverified')),
  -- Why it is not verified.
  reason text,
  -- When the first page of the comparison was asked for.
  read_at timestamptz,
  totals jsonb,
  lines jsonb not null default '[]',
  failures integer not null default 0,
  next_check_at timestamptz,
  created_at timestamptz not null,
  signed_at timestamptz,
  signed_by text,
  check (to_at > from_at),
  check ((state = 'signed') = (signed_at is not null)),
  unique (client, place, number)
);

-- Asked for again, the unsigned one is answered.
create unique index closings_unsigned on closings (client, place, business_day) where state <> 'signed';
create index closings_client on closings (client, business_day desc, created_at desc, id);
create index closings_due on closings (next_check_at) where next_check_at is not null;

create table closing_amendments (
  id uuid primary key,
  closing_id uuid not null references closings (id),
  client text not null references clients (name),
  number integer not null check (number >= 1),
  reason text not null,
  -- The day as it was compared then.
  result text not null check (result in ('agreed', 'differs', 'unverified')),
  totals jsonb not null,
  lines jsonb not null,
  created_at timestamptz not null,
  created_by text,
  unique (closing_id, number)
);

-- What was signed stays as it was signed; what comes later is an amendment. And no closing goes away: its number would be missing.
create function refuse_closing_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    raise exception 'a closing is never deleted' using errcode = 'restrict_violation';
  end if;
  if old.state = 'signed' then
    raise exception 'closing % is signed', old.id using errcode = 'restrict_violation';
  end if;
  if new.id <> old.id or new.client <> old.client or new.place <> old.place or new.number <> old.number
    or new.business_day <> old.business_day or new.from_at <> old.from_at then
    raise exception 'closing % keeps its number and day', old.id using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;

create trigger closings_signed before update or delete on closings
  for each row execute function refuse_closing_change();

create function refuse_amendment_change() returns trigger language plpgsql as $$
begin
  raise exception 'an amendment never changes' using errcode = 'restrict_violation';
end
$$;

create trigger closing_amendments_fixed before update or delete on closing_amendments
  for each row execute function refuse_amendment_change();

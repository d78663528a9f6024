-- expand: the version before neither reads nor writes these tables
-- People who sign in with a name and a password.
create table people (
  id uuid primary key,
  -- Null: of the whole service.
  client text references clients (name),
  name text not null,
  -- The name in the one form in which names are compared.
  name_key text not null unique,
  role text not null,
  -- Ids of the ERP of the stores that a supervisor sees; null for other roles.
  stores jsonb,
  -- Null until the invitation is used, and after a reset.
  password_hash text,
  -- Sealed. Counts at sign-in from `totp_on` on.
  totp_secret text,
  totp_on boolean not null default false,
  -- The time step of the last accepted code: no code is accepted twice.
  totp_step bigint,
  invitation_hash text unique,
  invitation_expires_at timestamptz,
  created_at timestamptz not null,
  signed_in_at timestamptz,
  revoked_at timestamptz,
  constraint people_role check (case role
    when 'administrator' then stores is null
    when 'supervisor' then client is not null and jsonb_array_length(stores) > 0
    when 'viewer' then client is not null and stores is null
    when 'flow_operator' then client is null and stores is null
    else false end)
);
create index people_client on people (client, name_key);
-- For the exchange of encryption keys.
create index people_sealed_by on people (split_part(totp_secret, '.', 2), name_key) where totp_secret is not null;

-- Sessions of people. The cookie holds a secret; only its hash is here.
create table person_sessions (
  id uuid primary key,
  token_hash text not null unique,
  person_id uuid not null references people (id),
  created_at timestamptz not null,
  used_at timestamptz not null,
  expires_at timestamptz not null,
  ip_address text,
  user_agent text
);
create index person_sessions_person on person_sessions (person_id, created_at desc);
create index person_sessions_expiry on person_sessions (expires_at);

-- Wrong passwords and codes, by the name that was typed (hashed, whether or not somebody has it) and by address.
create table sign_in_failures (
  subject text primary key,
  failures integer not null,
  until timestamptz not null
);
create index sign_in_failures_until on sign_in_failures (until);

-- What was done to an order, besides its charge, and what a person did.
create index activity_log_order on activity_log (resource_id, seq desc)
  where resource_type = 'order' and action <> 'order.created';
create index activity_log_person on activity_log ((metadata ->> 'person_id'), seq desc)
  where metadata ->> 'person_id' is not null;

-- Who asked for a cancel or refund, and why: the service may end it later. Null where the version before wrote the row.
alter table order_operations add column asked_by jsonb;

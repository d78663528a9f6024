-- Sessions of browsers. The sealed cookie names one; without its row it is worth nothing, so signing out ends it everywhere.
create table sessions (
  id uuid primary key,
  -- The key it was begun with; null for the administrator's token.
  key_id uuid references api_keys (id),
  created_at timestamptz not null,
  expires_at timestamptz not null
);

create index sessions_owner on sessions (key_id, created_at desc);
create index sessions_expiry on sessions (expires_at);

-- Clients, their connection to a provider account, their API keys, and who is signed in.
-- Times are of the service's clock, not now(), so that one clock decides. Money is whole cents in bigint.
-- Comments of columns begin with their part where a row has several: request, state, lease or plan.

create table settings (
  name text primary key,
  value text not null,
  updated_at timestamptz not null
);
comment on table settings is
  'Settings that the service keeps for itself, such as the encrypted audit key and the default connection.';

create table clients (
  name text check (char_length(name) between 1 and 100) primary key,
  mp_user_id bigint,
  mp_nickname text,
  created_at timestamptz not null
);
comment on table clients is
  'A shop chain with its own provider account, API keys, stores and orders. Never deleted.';
comment on column clients.name is 'The client''s name in paths and keys';
comment on column clients.mp_user_id is
  'The provider account that the first connection fixed; another account is refused until an administrator frees it';
comment on column clients.mp_nickname is 'The account''s nickname at the provider, for people';

create table oauth_connections (
  client text primary key references clients (name),
  mp_user_id bigint not null,
  live_mode boolean not null,
  access_token text not null,
  refresh_token text,
  public_key text,
  scope text,
  expires_at timestamptz not null,
  connected_at timestamptz not null,
  refreshed_at timestamptz not null,
  refresh_started_at timestamptz,
  status text not null check (status in ('connected', 'lost')),
  lost_reason text,
  version integer not null default 1
);
create index oauth_connections_access_key on oauth_connections (split_part(access_token, '.', 2), client);
create index oauth_connections_mp_user on oauth_connections (mp_user_id);
create index oauth_connections_refresh_key on oauth_connections (split_part(refresh_token, '.', 2), client);
comment on table oauth_connections is 'The OAuth tokens of a client, one row a client.';
comment on column oauth_connections.mp_user_id is 'The provider account of the tokens';
comment on column oauth_connections.live_mode is 'False for a test account of the provider';
comment on column oauth_connections.access_token is
  'Encrypted (AES-256-GCM); the text between the first two dots names the key';
comment on column oauth_connections.refresh_token is 'Encrypted, as access_token; null when the provider gave none';
comment on column oauth_connections.expires_at is 'plan: when access_token ends';
comment on column oauth_connections.refreshed_at is 'When the present pair of tokens was stored';
comment on column oauth_connections.refresh_started_at is
  'lease: set before a new pair is requested, cleared with the pair; a row that keeps it lost an answer';
comment on column oauth_connections.status is 'state: connected, or lost until a person connects again';
comment on column oauth_connections.lost_reason is 'Why the connection is lost, for people';
comment on column oauth_connections.version is 'Grows with each new pair; a write names the version that it read';

create table oauth_states (
  state_hash text primary key,
  client text not null,
  code_verifier text not null,
  target_url text,
  browser_hash text,
  may_choose_account boolean not null default false,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index oauth_states_expiry on oauth_states (expires_at);
create index oauth_states_key on oauth_states (split_part(code_verifier, '.', 2), state_hash);
comment on table oauth_states is 'Logins at the provider that have begun and not come back.';
comment on column oauth_states.state_hash is 'SHA-256 of the state parameter';
comment on column oauth_states.code_verifier is 'PKCE verifier, encrypted';
comment on column oauth_states.target_url is 'Where the browser goes after the login';
comment on column oauth_states.browser_hash is 'SHA-256 of the cookie of the browser that began the login';
comment on column oauth_states.may_choose_account is
  'Begun by the administrator, so the login may fix the account of a client that has none';

create table invitations (
  id uuid primary key,
  client text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at timestamptz
);
comment on table invitations is
  'Links by which a shop connects its provider account without an API key; used once.';

create table api_keys (
  id uuid primary key,
  client text not null references clients (name),
  key_hash text not null unique,
  key_mask text not null,
  mp_user_id bigint,
  description text,
  active boolean not null,
  created_at timestamptz not null,
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index api_keys_client on api_keys (client, created_at desc);
comment on table api_keys is 'API keys of clients. Only the hash is stored.';
comment on column api_keys.key_hash is 'SHA-256 of the key';
comment on column api_keys.key_mask is 'First and last characters, for lists';
comment on column api_keys.mp_user_id is 'The provider account that the key serves; null while its client has none';
comment on column api_keys.active is 'state: false after a revocation';
comment on column api_keys.last_used_at is 'Written at most once a minute';

create table people (
  id uuid primary key,
  client text references clients (name),
  name text not null,
  name_key text not null unique,
  role text not null,
  stores jsonb,
  password_hash text,
  totp_secret text,
  totp_on boolean not null default false,
  totp_step bigint,
  invitation_hash text unique,
  invitation_expires_at timestamptz,
  created_at timestamptz not null,
  signed_in_at timestamptz,
  revoked_at timestamptz,
  constraint people_role check ( case role when 'administrator' then stores is null when 'supervisor' then
    (client is not null and jsonb_array_length(stores) > 0) when 'viewer' then stores is null when
    'flow_operator' then (client is null and stores is null) else false end)
);
create index people_client on people (client, name_key);
create index people_sealed_by on people (split_part(totp_secret, '.', 2), name_key)
  where totp_secret is not null;
comment on table people is 'People who sign in with a name and a password.';
comment on column people.client is 'Null: a person of the whole service';
comment on column people.name_key is 'The name in the form in which names are compared';
comment on column people.role is
  'administrator, supervisor, viewer or flow_operator; people_role holds which columns a role has';
comment on column people.stores is 'The ERP''s ids of the stores that a supervisor sees; null for other roles';
comment on column people.password_hash is 'scrypt; null until the invitation is used, and after a reset';
comment on column people.totp_secret is 'Secret of the authenticator app, encrypted';
comment on column people.totp_on is 'Sign-in needs a code';
comment on column people.totp_step is 'Time step of the last accepted code; no code is accepted twice';
comment on column people.invitation_hash is 'SHA-256 of the invitation''s secret; null once it is used';

create table sessions (
  id uuid primary key,
  token_hash text not null unique,
  person_id uuid references people (id),
  key_id uuid references api_keys (id),
  admin_proof text,
  created_at timestamptz not null,
  used_at timestamptz not null,
  expires_at timestamptz not null,
  ip_address text,
  user_agent text,
  constraint sessions_owner check (num_nonnulls(person_id, key_id, admin_proof) = 1)
);
create index sessions_expiry on sessions (expires_at);
create index sessions_key on sessions (key_id, created_at desc) where person_id is null;
create index sessions_person on sessions (person_id, created_at desc)
  where person_id is not null;
comment on table sessions is
  'Browsers that are signed in: a person with a password, or an API key or the admin token.';
comment on column sessions.token_hash is 'SHA-256 of the cookie''s secret';
comment on column sessions.person_id is 'The person who signed in; null for a token';
comment on column sessions.key_id is 'The API key that signed in';
comment on column sessions.admin_proof is
  'SHA-256 of the cookie''s secret and the admin token that signed in: with another token the session is over';
comment on column sessions.used_at is 'Written at most once a minute';

create table sign_in_failures (
  subject text primary key,
  failures integer not null,
  until timestamptz not null
);
create index sign_in_failures_until on sign_in_failures (until);
comment on table sign_in_failures is 'Wrong passwords and codes, counted to slow down guessing.';
comment on column sign_in_failures.subject is
  'SHA-256 of the name that was typed, whether or not a person has it, or an address';
comment on column sign_in_failures.until is 'When the count is forgotten';

create table account_sites (
  mp_user_id bigint primary key,
  site_id text,
  read_at timestamptz not null
);
comment on table account_sites is 'The country of a provider account.';
comment on column account_sites.site_id is 'As the provider names it (MLA, MLB, …); null when it did not say';

create table account_webhooks (
  mp_user_id bigint primary key,
  in_time integer not null,
  heard_at timestamptz not null,
  untold uuid[] not null default '{}',
  untold_at timestamptz
);
comment on table account_webhooks is
  'How well the webhooks of a provider account arrive. While they do, its open orders need fewer status checks.';
comment on column account_webhooks.in_time is 'Webhooks in a row that came before a status check found the same change';
comment on column account_webhooks.heard_at is 'When the last webhook arrived';
comment on column account_webhooks.untold is 'Orders whose change a status check found and whose webhook has not come since';
comment on column account_webhooks.untold_at is 'When the first of them was added';

-- The newest refresh token of each access that a destination was given: its issuer hands out another one at each renewal, and
-- the one before stops working, so there is no copy of it anywhere else.
create table oauth_grants (
  -- SHA-256 of where it is renewed, for whom, and of the first refresh token: all who were given that one share a row, and
  -- another one in the flow file is another row.
  id text primary key,
  -- Sealed, as the access token is.
  refresh_token text not null,
  access_token text,
  -- Of the access token.
  expires_at timestamptz,
  renewed_at timestamptz,
  -- Rises with each renewal.
  version integer not null default 1,
  -- A renewal is under way, or was when its process died.
  renewal_began_at timestamptz,
  -- Since when there is a renewal of which nobody heard the answer: it may have used this refresh token up.
  unheard_since timestamptz,
  -- Nothing is renewed any more: another first token has to come.
  lost_at timestamptz,
  lost_reason text,
  -- The flow and the destination that used it last, for people.
  used_by text not null,
  used_at timestamptz not null
);

-- As those of the other sealed columns.
create index oauth_grants_access_key on oauth_grants (split_part(access_token, '.', 2), id);
create index oauth_grants_refresh_key on oauth_grants (split_part(refresh_token, '.', 2), id);

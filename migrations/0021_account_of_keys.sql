-- A key serves the account that it was made for. Keys from before belong to the account that their client has now; of a
-- client without one nobody can tell any more, and its keys end with the next connection.
alter table api_keys add column mp_user_id bigint;

update api_keys set mp_user_id = coalesce(
  (select mp_user_id from oauth_connections where oauth_connections.client = api_keys.client),
  (select mp_user_id from clients where clients.name = api_keys.client)
);

-- Whether the login was begun by the administrator's will, and so may choose the account of a client that has none.
alter table oauth_states add column may_choose_account boolean not null default false;

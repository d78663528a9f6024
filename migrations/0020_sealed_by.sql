-- Which keys sealed what, and signed what: the start asks for it, and the exchange of a key goes by it.
create index oauth_connections_access_key on oauth_connections (split_part(access_token, '.', 2), client);
create index oauth_connections_refresh_key on oauth_connections (split_part(refresh_token, '.', 2), client);
create index oauth_states_key on oauth_states (split_part(code_verifier, '.', 2), state_hash);
create index activity_log_key on activity_log (key_id, seq);

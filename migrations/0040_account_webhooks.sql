-- How well the webhooks of a provider account arrive, for every process: while they do, its open orders are looked at seldom.
create table account_webhooks (
  mp_user_id bigint primary key,
  -- Webhooks in a row that brought their news in time.
  in_time integer not null,
  heard_at timestamptz not null,
  -- Orders whose news a look has found, and whose webhook has not come since.
  untold uuid[] not null default '{}',
  untold_at timestamptz
);

-- Stores and boxes.

create table stores (
  id uuid primary key,
  client text not null references clients (name),
  external_id text not null,
  mp_external_id text not null,
  name text not null,
  location jsonb not null,
  time_zone text,
  mp_store_id text,
  state text not null check (state in ('creating', 'active', 'deleting')),
  created_at timestamptz not null,
  unique (client, external_id),
  unique (client, mp_external_id)
);
comment on table stores is 'Stores (sucursales) of a client.';
comment on column stores.external_id is 'The ERP''s id';
comment on column stores.mp_external_id is 'The id that the provider gets instead, of letters and digits only';
comment on column stores.location is 'Address and coordinates';
comment on column stores.time_zone is 'IANA name; null: that of the account''s country';
comment on column stores.mp_store_id is 'The provider''s id; null until it has answered';
comment on column stores.state is 'state: creating until the provider has the store, active, deleting until it has not';

create table pos (
  id uuid primary key,
  client text not null references clients (name),
  store_id uuid not null references stores (id),
  external_id text not null,
  mp_external_id text not null,
  name text not null,
  mp_pos_id text,
  state text not null check (state in ('creating', 'active', 'deleting')),
  denied_charges integer not null default 0,
  revision integer not null default 0,
  created_at timestamptz not null,
  unique (client, external_id),
  unique (client, mp_external_id)
);
create index pos_mp on pos (client, mp_pos_id);
create index pos_store on pos (store_id);
comment on table pos is 'Boxes (cajas) of a store.';
comment on column pos.external_id is 'The ERP''s id';
comment on column pos.mp_external_id is 'The id that the provider gets instead, of letters and digits only';
comment on column pos.mp_pos_id is 'The provider''s id; null until it has answered';
comment on column pos.state is 'state: creating until the provider has the box, active, deleting until it has not';
comment on column pos.denied_charges is
  'Charges of this box that were answered as not charged; a request that began before such an answer is not sent after it';
comment on column pos.revision is
  'Grows with each charge that begins on the box and each order found for it; a charge begins only at the revision that it read';

create table box_sightings (
  client text,
  caja_id text,
  refused_code text,
  refused_since timestamptz,
  refused_at timestamptz,
  refusals integer not null default 0,
  found text check (found in ('pdv', 'standalone', 'missing')),
  terminal_id text,
  found_since timestamptz,
  found_at timestamptz,
  primary key (client, caja_id)
);
comment on table box_sightings is
  'The last refused charge of a box, and what was last read about its terminal. Written in batches.';
comment on column box_sightings.refused_code is
  'Error code of the last refused charge; null after a charge that was not refused';
comment on column box_sightings.refused_since is 'The first refusal in a row';
comment on column box_sightings.refusals is 'Refusals in a row';
comment on column box_sightings.found is 'What the terminal list showed: pdv, standalone or missing';
comment on column box_sightings.found_since is 'Since when it shows this';

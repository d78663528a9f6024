-- What a receiver told of an item and later requests about it need, such as the id that it gave it.
create table remembered_values (
  flow text not null,
  destination text not null,
  pk text not null,
  -- Texts, numbers and truth values by their names in the flow file.
  named jsonb not null,
  at timestamptz not null,
  primary key (flow, destination, pk)
);

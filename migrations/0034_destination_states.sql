-- Why a destination is sent nothing, or less than it could be: written by the process that works it, for whoever asks any
-- other. No row: nothing is in its way.
create table destination_states (
  flow text not null,
  destination text not null,
  state text not null check (state in ('slowed', 'silent', 'open', 'probing')),
  cause text,
  since timestamptz not null,
  next_attempt_at timestamptz,
  -- Requests that it is found to take.
  per_second double precision,
  primary key (flow, destination)
);

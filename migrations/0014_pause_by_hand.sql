-- A flow is paused before the service runs by placing its name here, which is all that one has to know.
alter table flow_pause
  alter column paused_at set default now(),
  alter column paused_by set default current_user;

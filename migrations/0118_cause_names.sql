-- expand: the version before reads any word, and what it writes meanwhile is read by its new name
-- Four causes of GET /health/fleet, and one value of their sentences, have new names.
create function renamed_cause(cause text) returns text language sql immutable as $$
  select case cause
    when 'destination_resting' then 'destination_failing'
    when 'owed_for_long' then 'deliveries_late'
    when 'polls_held_back' then 'too_many_waiting'
    when 'terminal_held' then 'terminal_busy'
    else cause
  end
$$;
create function renamed_about(about jsonb) returns jsonb language sql immutable as $$
  select case when about -> 'owed' is null then about
    else (about - 'owed') || jsonb_build_object('pending', about -> 'owed') end
$$;

update fleet_states set cause = renamed_cause(cause), about = renamed_about(about)
where cause <> renamed_cause(cause) or about -> 'owed' is not null;
update fleet_changes
set cause = renamed_cause(cause), from_cause = renamed_cause(from_cause), about = renamed_about(about)
where cause <> renamed_cause(cause) or from_cause <> renamed_cause(from_cause) or about -> 'owed' is not null;
update alert_troubles set cause = renamed_cause(cause), about = renamed_about(about)
where cause <> renamed_cause(cause) or about -> 'owed' is not null;

drop function renamed_cause(text);
drop function renamed_about(jsonb);

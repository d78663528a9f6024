-- alone: kinds of calls to the provider have no state
drop table provider_tallies;
delete from fleet_changes where kind = 'provider';
delete from alert_troubles where kind = 'provider';
delete from fleet_states where kind = 'provider';
alter table fleet_states drop constraint fleet_states_kind_check;
alter table fleet_states add constraint fleet_states_kind_check check (kind in ('box', 'connection', 'flow', 'destination'));

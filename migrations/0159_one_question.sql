-- alone: the question of a flow also asks about deletes that its guard holds, in place of their tables
drop table held_deletes;
drop table delete_approvals;

/** Why a flow is paused, why that is over, and why a destination is sent nothing for a while. */
export const pauses = {
  RUN_LIMIT_REACHED: 'The flow reached its limit of runs',
  DEFINITION_MISSING: 'definition missing',
  DEFINITION_BACK: 'the definition is back',
  DEFINITION_CHANGED:
    'The definition changed. Because of it {new} new and {changed} changed deliveries wait[, {failing} cannot be mapped][, and {missing} items are missing]: answer whether to send them or to keep what was sent',
  START_PAUSED: 'startPaused in the flow file',
  ALL_START_PAUSED: 'FLOWS_START_PAUSED',

  SENDING_STOPPED: 'sending was stopped by {by}[: {said}]',
  ATTEMPTS_FAILED: '{failed} of the last {among} attempts failed, the last one with: {last}',
  PROBE_FAILED: 'the attempt that looked whether it is back failed with: {last}',
} as const

/** A poll that ended. Only error names, because a source's text may contain data. */
type PollNote = {
  flow: string
  rowsRead: number
  changes: number
  durationMs: number
  /** The name of the error that ended it. */
  failure: string | null
}

/** An attempt to deliver items to a destination. It contains neither keys nor texts of the destination. */
export type TracedAttempt = {
  flow: string
  destination: string
  items: number
  delivered: number
  durationMs: number
  /** Status of the first refusal, or of an accepted item; null without an answer. */
  status: number | null
  failure: 'refused' | 'overdue' | 'thrown' | null
}

/** Receives events of flows for traces. Neither function may fail. */
export type FlowTrace = {
  notePoll(entry: PollNote): void
  noteAttempt(entry: TracedAttempt): void
}

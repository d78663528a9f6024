/** A poll that ended. Names of what went wrong only: what a source says may hold data. */
export type PollNote = {
  flow: string
  rowsRead: number
  changes: number
  durationMs: number
  /** The name of the error that ended it. */
  failure: string | null
}

/** An attempt to deliver items to a destination. Neither the items' keys nor the destination's words are in it. */
export type AttemptNote = {
  flow: string
  destination: string
  items: number
  delivered: number
  durationMs: number
  /** Of the first refusal, or of what was taken; null without an answer. */
  status: number | null
  failure: 'refused' | 'overdue' | 'thrown' | null
}

/** Hears of what flows do, for traces. Neither function may fail. */
export type FlowTrace = {
  notePoll(entry: PollNote): void
  noteAttempt(entry: AttemptNote): void
}

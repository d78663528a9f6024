/** Why something of a flow is as it is, in the reader's language; the words alone where no code was recorded. */
export function reasonText(why, words) {
  return why?.message ?? words
}

/** What is wrong with a definition and what to do, in the reader's language. */
export function problemText({ message, hint, why }) {
  return why ?? { message, hint }
}

/** Whether an access is lost: no attempt helps, and what to do stands at the end of the sentence. */
export function isOfLostAccess(why) {
  return [why?.code, why?.data?.last?.code].some((code) => code?.startsWith('ACCESS_LOST_'))
}

/** 409 and 423 are how shops say that another change of the same thing is under way; 425 is RFC 8470. */
const passingStatuses = [408, 409, 423, 425, 429]

/** Whether an answer with this status says that the same request may succeed later. */
export function isPassingStatus(status: number): boolean {
  return status >= 500 || passingStatuses.includes(status)
}

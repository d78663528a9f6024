/** What whoever runs the process can mend himself: the message says what is wrong and what to do. */
export class OperatorError extends Error {}

/** What to tell him, with the reason beneath it where the message does not have it yet. */
export function tellOperator({ message, cause }: OperatorError): string {
  const reason = cause instanceof Error ? cause.message : ''
  return message.includes(reason) ? message : `${message} (${reason})`
}

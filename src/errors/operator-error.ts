/** An error that the operator can correct: the message says what is wrong and what to do. */
export class OperatorError extends Error {}

/** The message for the operator, with the reason added if the message lacks it. */
export function writeOperatorMessage({ message, cause }: OperatorError): string {
  const reason = cause instanceof Error ? cause.message : ''
  return message.includes(reason) ? message : `${message} (${reason})`
}

/** An invalid call of the control surface: `{error, code}` with this status. */
export class ControlError extends Error {
  readonly status: number
  readonly code: string

  constructor(status: 400 | 404 | 409, message: string) {
    super(message)
    this.name = 'ControlError'
    this.status = status
    this.code = { 400: 'BAD_REQUEST', 404: 'NOT_FOUND', 409: 'CONFLICT' }[status]
  }
}

export function badCall(message: string): ControlError {
  return new ControlError(400, message)
}

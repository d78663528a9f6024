import { OperatorError } from '../errors/operator-error.ts'

/** The start cannot succeed. */
export class StartError extends OperatorError {}

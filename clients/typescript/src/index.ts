export type { components, paths } from './api.ts'
export {
  type Charge,
  type ClientOptions,
  type EventPage,
  type Refund,
  TillbridgeClient,
} from './client.ts'
export { NoAnswerError, TillbridgeError } from './errors.ts'
export type { RequestOptions } from './request.ts'

import type { OrderRequest } from './order-body.ts'
import type { MethodFields } from './payment-methods.ts'

/** The application of the service at the provider. `ownerId` is the account of client_credentials tokens. */
export type Application = {
  clientId: string
  clientSecret: string
  webhookSecrets: string[]
  ownerId: number
}

export type Seller = {
  id: number
  nickname: string
  liveMode: boolean
  /** No grant between application and seller: set by a revocation, cleared by the next authorization. */
  revoked: boolean
  publicKey: string
  createdAt: string
  /** The account of header-approved authorizations that name none. */
  isDefault: boolean
  /** Its country. Absent in old ledgers: Argentina. */
  siteId?: string
}

export type AuthorizationCode = {
  code: string
  userId: number
  clientId: string
  redirectUri: string
  challenge: string
  method: 'S256' | 'plain'
  expiresAt: number
  used: boolean
}

export type AccessToken = { token: string; userId: number; expiresAt: number; revoked: boolean }

export type RefreshToken = {
  token: string
  userId: number
  clientId: string
  expiresAt: number
  used: boolean
  scope: string
}

export type Location = {
  streetNumber: string
  streetName: string
  cityName: string
  stateName: string
  latitude: number
  longitude: number
  reference: string | null
}

export type Store = {
  id: number
  userId: number
  name: string
  externalId: string | null
  businessHours: Record<string, { open: string; close: string }[]>
  location: Location
  dateCreated: string
}

export type Pos = {
  id: number
  userId: number
  name: string
  storeId: number
  externalStoreId: string | null
  externalId: string | null
  category: number | null
  fixedAmount: boolean
  uuid: string
  dateCreated: string
  dateLastUpdated: string
}

export type OperatingMode = 'PDV' | 'STANDALONE' | 'UNDEFINED'

export type Terminal = {
  id: string
  userId: number
  posId: number | null
  operatingMode: OperatingMode
  /** Current software: an API cancel at the terminal works (provider facts 2.3). */
  cancelByApi: boolean
}

export type OrderStatus =
  | 'created'
  | 'at_terminal'
  | 'processed'
  | 'refunded'
  | 'canceled'
  | 'failed'
  | 'expired'
  | 'action_required'
  | 'processing'
  | 'in_process'
  | 'charged_back'

export type PaymentMethod = { type: string; id: string; installments: number }

export type Payment = {
  id: string
  amountCents: number
  status: OrderStatus
  statusDetail: string | null
  paidCents: number | null
  tipCents: number
  /** The card issuer's interest for instalments, a part of `paidCents`. Absent in old ledgers. */
  interestCents?: number
  /** Whether refunds include the interest, and name it. */
  givesInterestBack?: boolean
  /** The Orders API does not list it, the Payments API does. */
  isHidden?: boolean
  refundedCents: number
  referenceId: string | null
  method: PaymentMethod | null
  paidAt: number | null
  /** The box where it was paid: a terminal may be moved later. Absent in old ledgers. */
  box?: { posId: number | null; storeId: number | null }
}

/** A charge without an order of the Orders API: entered at a terminal, or made in a web shop. */
export type PaymentWithoutOrder = {
  id: number
  userId: number
  /** Null for an online sale. */
  posId: number | null
  storeId: number | null
  externalReference: string | null
  amountCents: number
  status: string
  statusDetail: string | null
  method: PaymentMethod
  createdAt: number
  updatedAt: number
  refunds: PaymentRefund[]
}

/** A refund of a payment without an order. One that is `in_process` ends as `ends` at `endsAt`, or by an action. */
export type PaymentRefund = {
  id: number
  amountCents: number
  at: number
  status: 'approved' | 'in_process' | 'rejected'
  endsAt?: number | null
  ends?: 'approved' | 'rejected'
}

export type Refund = {
  id: string
  transactionId: string
  referenceId: string
  amountCents: number
  status: 'processing' | 'processed' | 'failed'
  createdDate: string
}

export type Order = Omit<OrderRequest, 'amountCents' | 'expirySeconds'> & {
  id: string
  userId: number
  expiresAt: number
  status: OrderStatus
  statusDetail: string
  createdAt: number
  createdDate: string
  lastUpdatedDate: string
  payment: Payment
  /** Further approved payments. Absent in old ledgers. */
  furtherPayments?: Payment[]
  refunds: Refund[]
  /** Members that replace those of the order in answers, such as undocumented states; null for none. */
  shown: Record<string, unknown> | null
  version: number
  idempotencyKey: string
}

/** A charge-back of a payment, with or without an order. Amounts in cents, times in milliseconds. */
export type Chargeback = {
  /** The case number, as text: it is too long for an exact JavaScript number. */
  id: string
  /** The `CBK…` id in the order. */
  orderCaseId: string
  userId: number
  orderId: string | null
  paymentId: number
  amountCents: number
  reason: string
  coverageEligible: boolean
  /** Null until the case is decided; true if the shop keeps the money. */
  coverageApplied: boolean | null
  documentationStatus: string
  deadlineAt: number | null
  openedAt: number
  decidedAt: number | null
  updatedAt: number
  /** Members that replace those of the case in answers. */
  odd?: Record<string, unknown>
}

/** A remembered idempotency key: the status of the first answer and its resource. */
export type Remembered = {
  fingerprint: string
  at: number
  status: number
  resourceId: string
  /** The answer itself, if the resource may be deleted later (POS). */
  body: unknown
}

export type Webhook = {
  id: string
  type: string
  action: string
  dataId: string
  body: Record<string, unknown>
  requestId: string
  attempts: number
  nextAt: number
  badSignature: boolean
}

/** A simulated event, or the terminal's answer to a cancel request, that is not due yet. */
export type PendingEvent = {
  id: string
  orderId: string
  fetchAt: number
  applyAt: number
  event: MethodFields & {
    status: string
    status_detail?: unknown
    by?: 'api'
    as?: Refund['status']
  }
}

export type ReportKind = 'settlement' | 'release'

/** The report configuration of a shop; one per account and kind. */
export type ReportConfig = {
  columns?: { key: string }[]
  display_timezone?: string
  separator?: string
  file_name_prefix?: string
  /** Sandbox only: the form of JSON cells. Real files have all of them. */
  json_cells?: 'bare' | 'doubled' | 'undoubled'
}

/** An ordered report, with the configuration of that time. */
export type Report = {
  id: number
  userId: number
  kind: ReportKind
  beginMs: number
  endMs: number
  fileName: string
  createdAt: number
  config: ReportConfig
}

/** The tables of the provider's state, by id. */
export function emptyTables() {
  return {
    application: new Map<string, Application>(),
    sellers: new Map<string, Seller>(),
    codes: new Map<string, AuthorizationCode>(),
    accessTokens: new Map<string, AccessToken>(),
    refreshTokens: new Map<string, RefreshToken>(),
    stores: new Map<string, Store>(),
    pos: new Map<string, Pos>(),
    terminals: new Map<string, Terminal>(),
    orders: new Map<string, Order>(),
    payments: new Map<string, PaymentWithoutOrder>(),
    chargebacks: new Map<string, Chargeback>(),
    reports: new Map<string, Report>(),
    reportConfigs: new Map<string, ReportConfig>(),
    memory: new Map<string, Remembered>(),
    webhooks: new Map<string, Webhook>(),
    events: new Map<string, PendingEvent>(),
  }
}

export type Tables = ReturnType<typeof emptyTables>
export type TableName = keyof Tables
type RowOf<T> = T extends Map<string, infer Row> ? Row : never
/** New values by id; null removes. One change is one line of the ledger file, so it is written whole or not at all. */
export type Change = { [K in TableName]?: Record<string, RowOf<Tables[K]> | null> }
export type Effect = { seq: number; at: string; kind: string; ref: string }

/** The application the service owns at the provider. `ownerId` is the account behind client_credentials tokens. */
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
  /** The account header-approved authorizations use when they name none. */
  isDefault: boolean
  /** Its country; absent in ledgers from before this was kept: Argentina. */
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
  /** What the buyer pays to the card issuer for instalments, a part of `paidCents`. Absent in ledgers from before it was kept. */
  interestCents?: number
  /** Whether refunds give the interest back too, and name it. */
  givesInterestBack?: boolean
  /** The Orders API does not list it, the Payments API does. */
  isHidden?: boolean
  refundedCents: number
  referenceId: string | null
  method: PaymentMethod | null
  paidAt: number | null
  /** The box at which it was paid: a terminal may stand elsewhere tomorrow. Absent in ledgers from before this was kept. */
  box?: { posId: number | null; storeId: number | null }
}

/** A charge without an order of the Orders API: typed into a terminal, or made in a web shop. */
export type LoosePayment = {
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
  /** Members that answers show instead of the true ones: rows as they should not be. */
  odd?: Record<string, unknown>
}

/** A refund of a payment without an order. One that is `in_process` ends as `ends` at `endsAt`, or when it is told to. */
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

export type Order = {
  id: string
  userId: number
  externalReference: string
  description: string | null
  expirationTime: string | null
  expiresAt: number
  terminalId: string
  printOnTerminal: string
  ticketNumber: string | null
  paymentMethodConfig: {
    defaultType: string | null
    defaultInstallments: number | null
    installmentsCost: string | null
  } | null
  integrationData: {
    platformId: string | null
    integratorId: string | null
    sponsorId: string | null
  }
  taxes: { payerCondition: string }[]
  status: OrderStatus
  statusDetail: string
  createdAt: number
  createdDate: string
  lastUpdatedDate: string
  payment: Payment
  /** Approved payments beside it. Absent in ledgers from before this was kept. */
  furtherPayments?: Payment[]
  refunds: Refund[]
  /** What answers show instead of the truth: states and evidence that no document describes. Null: the truth. */
  shown: Record<string, unknown> | null
  version: number
  idempotencyKey: string
}

/** A charge-back of a payment, with or without an order. Amounts in cents, times in milliseconds. */
export type Chargeback = {
  /** The number of the case, as text: it is longer than a number of JavaScript is exact. */
  id: string
  /** `CBK…`, in the order. */
  orderCaseId: string
  userId: number
  orderId: string | null
  paymentId: number
  amountCents: number
  reason: string
  coverageEligible: boolean
  /** Null until the case is decided: true, the shop keeps the money. */
  coverageApplied: boolean | null
  documentationStatus: string
  deadlineAt: number | null
  openedAt: number
  decidedAt: number | null
  updatedAt: number
  /** Members that the answer shows instead of the true ones. */
  odd?: Record<string, unknown>
}

/** One remembered idempotency key: the first answer's status and what it was about. */
export type Remembered = {
  fingerprint: string
  at: number
  status: number
  resourceId: string
  /** The answer itself where the resource may be gone by then (POS). */
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

/** A simulated event, or the terminal's answer to a cancel request, that has not happened yet. */
export type PendingEvent = {
  id: string
  orderId: string
  fetchAt: number
  applyAt: number
  event: Record<string, unknown>
}

export type ReportKind = 'settlement' | 'release'

/** How a shop wants its reports; one per account and kind. */
export type ReportConfig = {
  columns?: { key: string }[]
  display_timezone?: string
  separator?: string
  file_name_prefix?: string
  /** Of the sandbox alone: how cells of JSON are written. Real files have all of them. */
  json_cells?: 'bare' | 'doubled' | 'undoubled'
  /** Of the sandbox alone: entries that its list shows before the real ones. */
  list?: unknown[]
  /** Of the sandbox alone: an order is answered 203, and nothing is created. */
  not_created?: boolean
  /** Of the sandbox alone: the states of a task before and after its file is there. */
  words?: { making?: string; made?: string }
  /** Of the sandbox alone: the ending of the file's name. */
  file_type?: 'csv' | 'xlsx'
  /** Of the sandbox alone: the row, counted from 1, that breaks off in its middle. */
  damaged_row?: number
}

/** A report that was ordered, with the configuration of that moment. */
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

export type Tables = {
  application: Application
  sellers: Seller
  codes: AuthorizationCode
  accessTokens: AccessToken
  refreshTokens: RefreshToken
  stores: Store
  pos: Pos
  terminals: Terminal
  orders: Order
  payments: LoosePayment
  chargebacks: Chargeback
  reports: Report
  reportConfigs: ReportConfig
  memory: Remembered
  webhooks: Webhook
  events: PendingEvent
}

export type TableName = keyof Tables
/** New values by id; null removes. One change is one line of the ledger file, so it happens whole or not at all. */
export type Change = { [K in TableName]?: Record<string, Tables[K] | null> }
export type Effect = { seq: number; at: string; kind: string; ref: string }

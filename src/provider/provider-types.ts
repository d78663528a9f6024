import type { ProviderChargeback } from '../domain/chargeback.ts'
import type { ClientName } from '../domain/client-name.ts'
import type {
  OperatingMode,
  OrderEvidence,
  OrderStatus,
  PaymentMethod,
  ProviderRefund,
} from '../domain/order.ts'
import type { ProviderPayment, UnreadablePayment } from '../domain/provider-payment.ts'
import type { StoreLocation } from '../domain/store-location.ts'

export type {
  ProviderAmount,
  ProviderPayment,
  UnreadablePayment,
} from '../domain/provider-payment.ts'

import type { AttemptTimer, SendPermit } from '../outbound/outbound.ts'

export type ProviderSettings = {
  /** Base address without a final slash, for example `https://api.mercadopago.com`. */
  apiUrl: string
  authUrl: string
  clientId: string
  clientSecret: string
  /** Longest time of one attempt. */
  timeoutMs: number
  posApi: 'v1' | 'v2'
  now?: () => Date
  /** The clock of deadlines; `performance.now` when absent. */
  monotonicMs?: () => number
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  random?: () => number
  /** Ends an attempt whose time is over; for tests. */
  timer?: AttemptTimer
  /** Each is called after every attempt of a call, in this order, and must not throw. */
  observers?: readonly ProviderCallObserver[]
  /** Called after every attempt whose answer has a date. */
  onDate?: (answer: { date: Date; durationMs: number }) => void
}

/** One attempt of one call. Contains no body, token or key. */
export type ProviderCallObserver = (entry: ProviderCallLog) => void

export type ProviderCallLog = {
  operation: string
  method: string
  /** Without the query. */
  path: string
  status: number | null
  attempt: number
  durationMs: number
  requestId: string | null
  code: string | null
  /** The code of a refusal of which the table of codes does not tell. */
  unknownCode: string | null
  failure: string | null
  about: CallAbout | null
}

/** The client, order and reason of a call; for records only. */
type CallAbout = { client: ClientName; orderId: string; source: string }

export type CallOptions = {
  about?: CallAbout
  signal?: AbortSignal
  /** The deadline of all attempts and waits, by the settings' `monotonicMs`. */
  untilMs?: number
  maxAttempts?: number
  /** Asked before each attempt whether it may be sent. */
  permit?: SendPermit
}

export type TokenGrant = {
  accessToken: string
  refreshToken: string | null
  expiresInSeconds: number
  mpUserId: number | null
  publicKey: string | null
  liveMode: boolean | null
  scope: string | null
}

export type NewProviderOrder = {
  /** Already encoded: `[A-Za-z0-9_-]{1,64}`. */
  externalReference: string
  amountCents: number
  /** Sent without decimals: the account's currency has no cents. */
  isWholeAmount?: boolean
  terminalId: string
  description: string | null
  /** null leaves the field out; some countries refuse it. */
  ticketNumber: string | null
  printTicket: boolean
  paymentMethod: PaymentMethod
  /** 1 to 180. */
  expirationMinutes: number
}

/** An order as the provider returns it, with its application and what was requested. Absent members are null. */
export type FoundOrder = {
  evidence: OrderEvidence
  /** Whether the application of this service made it. */
  isOurs: boolean | null
  isPoint: boolean
  createdAt: Date | null
  expirationMinutes: number | null
  description: string | null
  ticketNumber: string | null
  printTicket: boolean
  paymentMethod: PaymentMethod
}

/** A refund answers with a short body, not with the whole order. */
export type RefundAnswer = {
  mpOrderId: string
  status: OrderStatus | null
  providerStatus: string
  statusDetail: string | null
  /** Null where the answer has none, as in the documented one. */
  currency: string | null
  refunds: ProviderRefund[]
}

export type SimulatedEvent = {
  status: 'processed' | 'canceled' | 'expired' | 'failed' | 'refunded' | 'action_required'
  paymentMethodType?: 'debit_card' | 'credit_card' | 'qr' | null
  installments?: number | null
  paymentMethodId?: string | null
  statusDetail?: string | null
}

export type NewProviderStore = {
  name: string
  /** Already encoded: letters and digits, up to 60. */
  externalId: string
  location: StoreLocation
}

export type NewProviderPos = {
  name: string
  /** Already encoded: letters and digits, up to 39. */
  externalId: string
  mpStoreId: string
  mpExternalStoreId: string | null
}

export type ProviderTerminal = {
  id: string
  mpPosId: string | null
  mpStoreId: string | null
  externalPosId: string | null
  /** Every mode except PDV works without this service and counts as STANDALONE. */
  operatingMode: OperatingMode
  providerMode: string
}

type ProviderUser = {
  id: number
  nickname: string | null
  siteId: string | null
  isTestUser: boolean
}

/**
 * The payment provider.
 *
 * @throws ProviderError unless the answer is usable.
 */
export type Provider = {
  oauth: {
    /** Whether the `iss` of a callback (RFC 9207) means this provider. */
    isIssuer(iss: string): boolean
    authorizationUrl(p: { state: string; codeChallenge: string; redirectUri: string }): string
    exchangeCode(
      p: { code: string; codeVerifier: string; redirectUri: string },
      o?: CallOptions,
    ): Promise<TokenGrant>
    refresh(refreshToken: string, o?: CallOptions): Promise<TokenGrant>
  }
  users: { me(token: string, o?: CallOptions): Promise<ProviderUser> }
  orders: {
    create(
      token: string,
      key: string,
      order: NewProviderOrder,
      o?: CallOptions,
    ): Promise<OrderEvidence>
    get(token: string, mpOrderId: string, o?: CallOptions): Promise<OrderEvidence>
    /** The same call for an order that is not in the database. */
    find(token: string, mpOrderId: string, o?: CallOptions): Promise<FoundOrder>
    cancel(token: string, mpOrderId: string, key: string, o?: CallOptions): Promise<OrderEvidence>
    /** Without `partial` the refund is total. */
    refund(
      token: string,
      mpOrderId: string,
      key: string,
      partial: { paymentId: string; amountCents: number; isWholeAmount?: boolean } | null,
      o?: CallOptions,
    ): Promise<RefundAnswer>
    simulate(
      token: string,
      mpOrderId: string,
      event: SimulatedEvent,
      o?: CallOptions,
    ): Promise<void>
    /**
     * Unconfirmed for Point orders: an empty result proves nothing. The provider refuses more than 720 hours. `unreadable` counts
     * rows that cannot be read; one of them may be the order.
     */
    search(
      token: string,
      q: { externalReference: string; from: Date; to: Date },
      o?: CallOptions,
    ): Promise<{ orders: FoundOrder[]; unreadable: number }>
    /**
     * The first page, of 100 orders, of those made at the account in this time, at most 30 days. The provider's index lags by up to
     * a minute. `pages` is null when the provider does not say how many there are. `unreadable` are the ids of rows that cannot be
     * read.
     */
    list(
      token: string,
      q: { from: Date; to: Date; status: OrderStatus },
      o?: CallOptions,
    ): Promise<{
      orders: FoundOrder[]
      unreadable: (string | null)[]
      pages: number | null
    }>
  }
  payments: {
    /**
     * A page of the account's payments, oldest first, by when they were made or last changed. The last 60 seconds are
     * missing, because the index lags. `total` is null when the provider does not say how many there are; `rows` counts
     * all rows of the page, readable or not.
     */
    search(
      token: string,
      q: {
        range: 'date_created' | 'date_last_updated'
        from: Date
        to: Date
        mpStoreId?: string | undefined
        mpPosId?: string | undefined
        limit: number
        offset: number
      },
      o?: CallOptions,
    ): Promise<{
      payments: ProviderPayment[]
      unreadable: UnreadablePayment[]
      rows: number
      total: number | null
    }>
    /** The current state of a payment, by its number: the `reference_id` of an order's payment. */
    get(token: string, paymentId: string, o?: CallOptions): Promise<ProviderPayment>
  }
  /** Charge-back cases of an account. */
  chargebacks: {
    /** Undefined when the account has no case of this number. */
    get(
      token: string,
      mpUserId: number,
      caseId: string,
      o?: CallOptions,
    ): Promise<ProviderChargeback | undefined>
    /** Numbers of the cases about a payment, ten at most. */
    search(token: string, mpUserId: number, paymentId: string, o?: CallOptions): Promise<string[]>
  }
  /** Reports of the account. `report` is `settlement` or `release`. */
  reports: {
    /** The shop's own configuration; undefined when there is none. `columns` is null when the answer does not list them. */
    config(
      token: string,
      report: 'settlement' | 'release',
      o?: CallOptions,
    ): Promise<{ columns: string[] | null; zone: string | null } | undefined>
    order(
      token: string,
      report: 'settlement' | 'release',
      span: { from: Date; to: Date },
      o?: CallOptions,
    ): Promise<{ taskId: string } | 'not_created'>
    /** `word` is the provider's own; only the name of a CSV file means that the report can be read. */
    task(
      token: string,
      report: 'settlement' | 'release',
      taskId: string,
      o?: CallOptions,
    ): Promise<{
      word: string
      fileName: string | null
      otherFile: string | null
      isFailed: boolean
    }>
    /** CSV reports that are ready. `madeAt` is null when the provider does not say when. */
    list(
      token: string,
      report: 'settlement' | 'release',
      o?: CallOptions,
    ): Promise<{ fileName: string; from: Date; to: Date; madeAt: Date | null }[]>
    /** The file in chunks. Failures are thrown while it is read. */
    file(
      token: string,
      report: 'settlement' | 'release',
      fileName: string,
      signal?: AbortSignal,
    ): AsyncIterable<string>
  }
  stores: {
    create(
      token: string,
      userId: number | string,
      store: NewProviderStore,
      o?: CallOptions,
    ): Promise<{ mpStoreId: string }>
    findByExternalId(
      token: string,
      userId: number | string,
      externalId: string,
      o?: CallOptions,
    ): Promise<{ mpStoreId: string; name: string | null } | undefined>
    /** Changes name and location; the external id stays. */
    update(
      token: string,
      userId: number | string,
      mpStoreId: string,
      store: Omit<NewProviderStore, 'externalId'>,
      o?: CallOptions,
    ): Promise<void>
    /** A store that does not exist counts as deleted. */
    delete(
      token: string,
      userId: number | string,
      mpStoreId: string,
      o?: CallOptions,
    ): Promise<void>
  }
  pos: {
    /** `key` is sent to API v2 only: v1 has no idempotency key. */
    create(
      token: string,
      key: string,
      pos: NewProviderPos,
      o?: CallOptions,
    ): Promise<{ mpPosId: string }>
    findByExternalId(
      token: string,
      externalId: string,
      o?: CallOptions,
    ): Promise<{ mpPosId: string; mpStoreId: string | null } | undefined>
    /** Changes nothing when the reduced name is empty. */
    rename(token: string, mpPosId: string, name: string, o?: CallOptions): Promise<void>
    /** A POS that does not exist counts as deleted. */
    delete(token: string, mpPosId: string, o?: CallOptions): Promise<void>
  }
  terminals: {
    /** `rows` counts all rows of the page, readable or not. */
    list(
      token: string,
      q: { mpPosId?: string; mpStoreId?: string; limit?: number; offset?: number },
      o?: CallOptions,
    ): Promise<{ terminals: ProviderTerminal[]; rows: number; total: number }>
    setMode(token: string, terminalId: string, mode: OperatingMode, o?: CallOptions): Promise<void>
  }
  /**
   * Ends calls for orders and terminals that run now or begin later; the outcome of those already sent is unknown. A
   * token refresh is never ended: each refresh token is valid once, and the answer has the next one.
   */
  cutShort(): void
  close(): Promise<void>
}

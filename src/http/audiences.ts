import type { FastifyInstance, RouteOptions } from 'fastify'
import type { AppError, ErrorCode } from '../errors/app-error.ts'
import type { MoneyRoute } from '../errors/money-outcome.ts'

/**
 * Who may call the routes of a scope. `client`: a client key, or the administrator for a client. `metrics`: the administrator, or
 * the token of the metrics collector. `managers`: the administrator, and administrators of a client for that client.
 * `person`: a person who signed in with a name and a password.
 */
export type Audience = 'public' | 'client' | 'admin' | 'metrics' | 'managers' | 'person'

declare module 'fastify' {
  interface FastifyInstance {
    /** That of this scope, set by its guard (guard.ts). */
    audience?: Audience
  }
  interface FastifyContextConfig {
    /** That of the scope in which the route stands. */
    audience?: Audience
    /** On client routes: the administrator need not name a client, and then gets all of them. */
    allClients?: boolean
    /** On routes that move money: their error answers always have `outcome`, `retry_safe` and `retry`. */
    money?: MoneyRoute
    /** This public route begins a sign-in or a connection: refused under a host name that is not the service's. */
    signsIn?: true
    /**
     * What this route may answer besides the errors of its audience; for the API description. A code alone says no more than
     * that; an error with fields of its own, or with what it says of the money, is the example.
     */
    errors?: readonly (ErrorCode | AppError)[]
    /** On routes that people open in a browser: the page for a failure; undefined for JSON. */
    errorPage?: (failure: AppError, request: FastifyRequest) => string | undefined
  }
}

/** Denies by default: a route outside of every scope with an audience stops the start. */
export function requireAudience({ audience }: FastifyInstance, route: RouteOptions): void {
  if (audience === undefined) {
    throw new Error(`${route.method} ${route.url} stands in no scope with an audience`)
  }
  route.config = { ...route.config, audience }
}

import type { FastifyInstance, RouteOptions } from 'fastify'
import type { AppError, ErrorCode } from '../errors/app-error.ts'
import type { MoneyRoute } from '../errors/money-outcome.ts'

/**
 * Who may call a route. `client`: a client key, or the administrator for a client. `metrics`: the administrator, or
 * the token of the metrics collector. `managers`: the administrator, and administrators of a client for that client.
 * `person`: a person who signed in with a name and a password.
 */
export type AccessClass = 'public' | 'client' | 'admin' | 'metrics' | 'managers' | 'person'

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: AccessClass
    /** On client routes: the administrator need not name a client, and then gets all of them. */
    allClients?: boolean
    /** On routes that move money: their error answers always have `outcome` and `retry_safe`. */
    money?: MoneyRoute
    /** This public route begins a sign-in or a connection: refused under a host name that is not the service's. */
    signsIn?: true
    /** Codes that this route may answer besides those of its access class; for the API description. */
    errors?: readonly ErrorCode[]
    /** On routes that people open in a browser: the page for a failure; undefined for JSON. */
    errorPage?: (failure: AppError, request: FastifyRequest) => string | undefined
  }
}

/**
 * Denies by default: an app with a route that does not declare `config.access` does not become ready. The check runs
 * last, because plugins complete the routes of their scope after the hooks of the root.
 */
export function requireAccessClass(app: FastifyInstance): void {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route) => {
    routes.push(route)
  })
  app.addHook('onReady', async () => {
    const open = routes.filter((route) => route.config?.access === undefined)
    if (open.length > 0) {
      const names = open.map((route) => `${route.method} ${route.url}`)
      throw new Error(`Routes without config.access: ${names.join(', ')}`)
    }
  })
}

/** Makes each route that is later added to this scope public; for pages whose routes a plugin registers. */
export function makePublic(scope: FastifyInstance): void {
  scope.addHook('onRoute', (route) => {
    route.config = { ...route.config, access: 'public' }
  })
}

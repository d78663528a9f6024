import type { OpenApiOptions } from '../http/openapi.ts'
import { sessionCookieName } from '../routes/session-cookie.ts'
import answers from './payment-answers.json' with { type: 'json' }

const description = `Joins the tills of an ERP to the card terminals of a payment provider.

Amounts come in with a decimal comma and go out with a decimal point. Ids of stores and boxes are the ERP's own. Every
route but the public ones needs the header \`x-api-token\`: a client key, or the admin token together with the query
\`client\` on client routes.

Answers and errors of routes that move money carry \`outcome\` (\`charged\`, \`not_charged\`, \`unknown\`) and
\`retry_safe\`: on an order, whether the sale may be charged again; on an error, whether the same request can never charge
or refund twice. An error says by \`retry\` whether that request helps. Changes to this interface only add: new fields and new routes, never a new meaning.`

/** What the OpenAPI document of the payment API says besides its routes. */
export function describePaymentApi(publicUrl: string): OpenApiOptions {
  return {
    title: 'tillbridge payment API',
    description,
    publicUrl,
    answers,
    tags: [
      {
        name: 'Orders',
        description: 'Charges on the terminal of a box',
        paths: ['orders', 'statistics', 'sales', 'sales-over-time'],
      },
      { name: 'Stores', description: 'Stores and their boxes', paths: ['stores'] },
      {
        name: 'Closings',
        description: 'Days of boxes and stores, compared with the provider',
        paths: ['closings', 'orphans', 'chargebacks'],
      },
      {
        name: 'Terminals',
        description: 'Card terminals paired with boxes',
        paths: ['terminals'],
      },
      {
        name: 'Settlements',
        description: 'What charges leave to the seller',
        paths: ['settlements'],
      },
      {
        name: 'OAuth',
        description: 'Connection of a client to its provider account',
        paths: ['oauth'],
      },
      {
        name: 'API keys',
        description: 'Keys of clients, for the administrator',
        paths: ['api-keys'],
      },
      {
        name: 'Administration',
        description: 'Clients, webhooks, audit log, simulation',
        paths: ['admin'],
      },
      { name: 'Webhooks', description: 'Messages from the provider', paths: ['webhooks'] },
      {
        name: 'People',
        description: 'Named users of the dashboard, and their own account',
        paths: ['people', 'account'],
      },
      {
        name: 'Session',
        description: 'Sessions of browsers, for the dashboard',
        paths: ['session'],
      },
      {
        name: 'Service',
        description: 'State of the service',
        paths: ['metrics', 'health', 'events', 'overview'],
      },
    ],
    tokens: {
      client: 'A client key: mk_ and 64 hexadecimal characters',
      admin: 'The ADMIN_TOKEN',
      metrics: 'The METRICS_TOKEN, for figures alone',
      session: {
        name: sessionCookieName(publicUrl.startsWith('https:')),
        description: 'The session of a person who signed in with a name and a password',
      },
    },
  }
}

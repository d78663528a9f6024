import { z } from 'zod'
import { httpUrl } from './addresses.ts'
import type { FlowContext } from './flow-context.ts'
import { literalSecret } from './literal-secrets.ts'
import { duration, findingMessage, name, report, secretText } from './value-schemas.ts'

const destinations = () => z.array(name()).min(1).optional()

const address = () =>
  z
    .string()
    .max(254)
    .regex(
      /^[^\s@<>",;\p{Cc}]+@[^\s@<>",;\p{Cc}]+$/u,
      findingMessage({ code: 'MUST_BE_MAIL_ADDRESS' }),
    )

/** The kinds of receiver. `of` has further keys of those that are called by HTTP, `all` of all. */
function channels<Http extends z.ZodRawShape, All extends z.ZodRawShape>(
  context: FlowContext,
  of: Http,
  all: All,
) {
  return [
    z.strictObject({
      type: z
        .literal('email')
        .meta({ description: '`email`, `slack` or `webhook`', examples: ['email'] }),
      to: z
        .union(
          [address(), z.array(address()).min(1).max(50)],
          findingMessage({ code: 'MUST_BE_MAIL_ADDRESSES' }),
        )
        .transform((given) => (typeof given === 'string' ? [given] : given))
        .meta({ description: '`email`: the addresses', examples: [['sistemas@acme.example']] }),
      locale: z
        .enum(['es', 'en'])
        .prefault('es')
        .meta({ description: 'the language of the message', examples: ['es'] }),
      ...all,
    }),
    z.strictObject({
      type: z.literal('slack'),
      url: httpUrl(context)
        .superRefine((url, issues) => {
          // The address of an incoming webhook is itself the secret: everyone who has it can post.
          const finding = literalSecret(url.template)
          if (finding) report(issues, finding)
        })
        .meta({
          description: '`slack`, `webhook`: the address',
          examples: ['https://ops.example.com/hook'],
        }),
      ...of,
      ...all,
    }),
    z.strictObject({
      type: z.literal('webhook'),
      url: httpUrl(context),
      secret: secretText(context, literalSecret)
        .optional()
        .meta({
          description:
            'signs the message as Standard Webhooks does; without it there is no signature',
          examples: [`\${env:HOOK_SECRET}`],
        }),
      ...of,
      ...all,
    }),
  ] as const
}

/** The kinds of receiver as connections, without what a flow says of them. */
export const alertChannel = <Http extends z.ZodRawShape>(context: FlowContext, of: Http) =>
  channels(context, of, {})

const channel = (context: FlowContext) =>
  z.discriminatedUnion('type', [
    ...channels(
      context,
      {},
      {
        destinations: destinations().meta({
          description: 'only about these destinations, and the flow itself; without it about all',
          examples: [['payments']],
        }),
      },
    ),
  ])

const group = () =>
  z
    .strictObject({
      wait: duration('0s', '1h')
        .prefault('30s')
        .meta({ description: 'before the first message', examples: ['30s'] }),
      interval: duration('1s', '24h')
        .prefault('5m')
        .meta({ description: 'between messages on new failures', examples: ['5m'] }),
      repeat: duration('1m', '30d')
        .prefault('4h')
        .meta({ description: 'a reminder while failures stay', examples: ['4h'] }),
      resolved: z
        .boolean()
        .prefault(true)
        .meta({ description: 'one message when all failures are gone', examples: [false] }),
    })
    .transform(({ wait, interval, repeat, resolved }) => ({
      waitMs: wait,
      intervalMs: interval,
      repeatMs: repeat,
      resolved,
    }))
    .prefault({})

export function alertsSchema(context: FlowContext) {
  return z
    .strictObject({
      onJobFailed: z
        .array(channel(context))
        .max(50)
        .prefault([])
        .meta({
          description:
            'the receivers of alerts about permanently failed deliveries, and about the states of the flow and its destinations',
          examples: [[{ type: 'webhook', url: 'https://ops.example.com/hook' }]],
        }),
      group: group().meta({
        description: 'how failures become one message',
        examples: [{ wait: '30s', interval: '5m' }],
      }),
    })
    .prefault({})
}

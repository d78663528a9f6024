import { z } from 'zod'
import { httpUrl } from './addresses.ts'
import type { FlowContext } from './flow-context.ts'
import { literalSecret } from './literal-secrets.ts'
import { duration, findingMessage, name, report, secretText } from './value-schemas.ts'

const destinations = () =>
  z
    .array(name())
    .min(1)
    .optional()
    .describe('only about these destinations, and the flow itself; without it about all')

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
      type: z.literal('email'),
      to: z
        .union(
          [address(), z.array(address()).min(1).max(50)],
          findingMessage({ code: 'MUST_BE_MAIL_ADDRESSES' }),
        )
        .transform((given) => (typeof given === 'string' ? [given] : given)),
      locale: z.enum(['es', 'en']).prefault('es'),
      ...all,
    }),
    z.strictObject({
      type: z.literal('slack'),
      url: httpUrl(context).superRefine((url, issues) => {
        // The address of an incoming webhook is itself the secret: everyone who has it can post.
        const finding = literalSecret(url.template)
        if (finding) report(issues, finding)
      }),
      ...of,
      ...all,
    }),
    z.strictObject({
      type: z.literal('webhook'),
      url: httpUrl(context),
      secret: secretText(context, literalSecret).optional().describe('signs; without it unsigned'),
      ...of,
      ...all,
    }),
  ] as const
}

/** The kinds of receiver as connections, without what a flow says of them. */
export const alertChannel = <Http extends z.ZodRawShape>(context: FlowContext, of: Http) =>
  channels(context, of, {})

const channel = (context: FlowContext) =>
  z.discriminatedUnion('type', [...channels(context, {}, { destinations: destinations() })])

const group = () =>
  z
    .strictObject({
      wait: duration('0s', '1h').prefault('30s').describe('before the first message'),
      interval: duration('1s', '24h').prefault('5m').describe('between messages on new failures'),
      repeat: duration('1m', '30d').prefault('4h').describe('reminder while it lasts'),
      resolved: z.boolean().prefault(true).describe('one message when all is well again'),
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
      onJobFailed: z.array(channel(context)).max(50).prefault([]),
      group: group(),
    })
    .prefault({})
}

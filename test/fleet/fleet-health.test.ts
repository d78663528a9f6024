import { describe, expect, test } from 'vitest'
import type { ErrorCode } from '../../src/errors/app-error.ts'
import { deriveHealth } from '../../src/fleet/fleet-health.ts'
import { messageOf } from '../../src/fleet/health-texts.ts'
import type { FlowSeen } from '../../src/fleet/observations.ts'
import {
  ago,
  boxSeen,
  chargeSeen,
  client,
  connectionSeen,
  healthOfBox,
  now,
  observed,
  unshown,
} from './seen.ts'

const refusal = (code: ErrorCode, seconds = 10, count = 1) => ({
  code,
  since: ago(seconds + 60),
  at: ago(seconds),
  count,
})

describe('a box', () => {
  test('with a charge that ended a minute ago is ok, whether the card was accepted or not', () => {
    expect(healthOfBox({})).toMatchObject({ state: 'ok', cause: null })
    expect(healthOfBox({ charges: [chargeSeen({ status: 'failed' })] })).toMatchObject({
      state: 'ok',
    })
  })

  test('that never charged is unknown', () => {
    expect(healthOfBox({ charges: [] })).toMatchObject({ state: 'unknown', cause: 'never_charged' })
  })

  test('without a recent charge is unknown', () => {
    const charges = [chargeSeen({ createdAt: ago(18 * 60) })]
    expect(healthOfBox({ charges })).toMatchObject({ state: 'unknown', cause: 'quiet' })
  })

  test.each([
    ['TERMINAL_NOT_PDV', 'terminal_standalone'],
    ['TERMINAL_NOT_FOUND', 'terminal_missing'],
    ['TERMINAL_BUSY', 'terminal_busy'],
  ] as const)('whose charge was refused as %s is down: %s', (code, cause) => {
    const box = { refusal: refusal(code) }
    expect(healthOfBox(box)).toMatchObject({ state: 'down', cause, since: ago(70) })
    expect(healthOfBox({ ...box, charges: [] })).toMatchObject({ state: 'down', cause })
  })

  test.each(['TERMINAL_NOT_PDV', 'TERMINAL_NOT_FOUND', 'TERMINAL_BUSY', 'PROVIDER_ERROR'] as const)(
    'that charges again after %s is ok',
    (code) => {
      const charges = [chargeSeen({ createdAt: ago(5) })]
      expect(healthOfBox({ charges, refusal: refusal(code) })).toMatchObject({ state: 'ok' })
    },
  )

  test('stays down when a charge from before the change of its terminal mode is paid', () => {
    const charges = [chargeSeen({ createdAt: ago(30), endedAt: ago(1) })]
    expect(healthOfBox({ charges, refusal: refusal('TERMINAL_NOT_PDV') })).toMatchObject({
      state: 'down',
      cause: 'terminal_standalone',
    })
  })

  test('gets its state from a list of its terminals when that is newer', () => {
    const found = (kind: 'pdv' | 'standalone', seconds: number) => ({
      found: kind,
      terminalId: 'T-9',
      since: ago(seconds),
      at: ago(seconds),
    })
    expect(healthOfBox({ terminal: found('standalone', 5) })).toMatchObject({
      state: 'down',
      cause: 'terminal_standalone',
      about: { terminalId: 'T-9' },
    })
    expect(healthOfBox({ terminal: found('standalone', 500) })).toMatchObject({ state: 'ok' })
    expect(
      healthOfBox({ terminal: found('pdv', 5), refusal: refusal('TERMINAL_NOT_PDV') }),
    ).toMatchObject({ state: 'ok' })
  })

  test('whose terminal has not shown a charge for 20 s is down, and not before', () => {
    expect(healthOfBox({ charges: [unshown(15), chargeSeen()] })).toMatchObject({ state: 'ok' })
    const silent = healthOfBox({ charges: [unshown(25), chargeSeen()] })
    expect(silent).toMatchObject({ state: 'down', cause: 'terminal_silent', since: ago(25) })
  })

  test('stays down when its charge is canceled, until a terminal shows a charge', () => {
    const givenUp = chargeSeen({
      ...unshown(120),
      status: 'canceled',
      endedAt: ago(60),
      changedAt: ago(60),
      isGivenUp: true,
    })
    expect(healthOfBox({ charges: [unshown(3), givenUp] })).toMatchObject({
      state: 'down',
      cause: 'terminal_silent',
      since: ago(120),
    })
    expect(healthOfBox({ charges: [chargeSeen({ createdAt: ago(5) }), givenUp] })).toMatchObject({
      state: 'ok',
    })
  })

  test('is not reported as silent while the provider could not be read', () => {
    const charges = [{ ...unshown(25), checkedAt: ago(24) }, chargeSeen()]
    expect(healthOfBox({ charges })).toMatchObject({ state: 'ok' })
  })

  test('names the charge that occupies its terminal, and is not down while a customer may be paying', () => {
    const holder = (seconds: number) =>
      chargeSeen({
        createdAt: ago(seconds),
        status: 'at_terminal',
        endedAt: null,
        reference: '0001-77',
      })
    const box = (seconds: number) => ({
      charges: [holder(seconds)],
      refusal: refusal('TERMINAL_BUSY'),
    })
    expect(healthOfBox(box(30))).toMatchObject({ state: 'attention', cause: 'terminal_busy' })
    expect(healthOfBox(box(300))).toMatchObject({
      state: 'down',
      cause: 'terminal_busy',
      since: ago(300),
      about: { reference: '0001-77', terminalId: 'T-1' },
    })
    const ended = { ...holder(300), status: 'canceled' as const, endedAt: ago(2) }
    expect(healthOfBox({ ...box(300), charges: [ended] })).toMatchObject({ state: 'ok' })
  })

  test('is in doubt over a charge of unknown outcome until a person settles it or another charge ends', () => {
    const doubtful = chargeSeen({
      createdAt: ago(90),
      creation: 'unknown',
      status: 'created',
      confirmedAt: null,
      lifeAt: null,
      endedAt: null,
      doubt: 'in_doubt',
    })
    const before = chargeSeen({ createdAt: ago(200) })
    expect(healthOfBox({ charges: [doubtful, before] })).toMatchObject({
      state: 'attention',
      cause: 'in_doubt',
      since: ago(90),
    })
    expect(healthOfBox({ charges: [{ ...doubtful, doubt: null }, before] })).toMatchObject({
      state: 'ok',
    })
    expect(healthOfBox({ charges: [chargeSeen({ createdAt: ago(9) }), doubtful] })).toMatchObject({
      state: 'ok',
    })
  })

  test('is down with the connection of its client', () => {
    const lost = connectionSeen({ status: 'lost' })
    expect(healthOfBox({}, { connections: [lost] })).toMatchObject({
      state: 'down',
      cause: 'connection_lost',
    })
  })

  test('is down when the provider has failed for two boxes of its client since its last charge', () => {
    const failed = (cajaId: string, at: number) =>
      boxSeen({ cajaId, charges: [], refusal: refusal('PROVIDER_ERROR', at) })
    const statesOf = (...boxes: ReturnType<typeof boxSeen>[]) =>
      deriveHealth(observed({ boxes }), now).boxes.map(({ state, cause }) => [state, cause])
    const [first, second, idle] = [failed('CAJA-2', 30), failed('CAJA-3', 5), boxSeen()]
    const [failing, one] = [
      ['down', 'provider_failing'],
      ['attention', 'provider_failing'],
    ]
    expect(statesOf(idle, first)).toEqual([['ok', null], one])
    expect(statesOf(idle, first, second)).toEqual([failing, failing, failing])
    // Another client knows nothing of it.
    const other = boxSeen({ client: 'other' as typeof client })
    expect(statesOf(first, second, other)).toEqual([failing, failing, ['ok', null]])
    const sold = boxSeen({ charges: [chargeSeen({ createdAt: ago(10) })] })
    expect(statesOf(sold, first, second)).toEqual([['ok', null], ['unknown', 'never_charged'], one])
    expect(statesOf(failed('CAJA-2', 16 * 60), second)).toEqual([['unknown', 'never_charged'], one])
  })

  test('is not down for a mistake of its caller, nor after the provider accepts a charge of another box', () => {
    expect(healthOfBox({ refusal: refusal('IDEMPOTENCY_CONFLICT') })).toMatchObject({ state: 'ok' })
    const refused = boxSeen({ refusal: refusal('PROVIDER_ERROR', 5, 2) })
    expect(healthOfBox(refused)).toMatchObject({ state: 'down' })
    const other = boxSeen({ cajaId: 'CAJA-2', charges: [chargeSeen({ createdAt: ago(1) })] })
    expect(deriveHealth(observed({ boxes: [refused, other] }), now).boxes[0]).toMatchObject({
      state: 'ok',
    })
  })
})

describe('a connection', () => {
  test.each([
    [{ status: 'lost' as const }, 'down', 'connection_lost'],
    [{ status: 'none' as const }, 'down', 'not_connected'],
    [{ status: 'none' as const, isPinned: false }, 'down', 'account_unpinned'],
    [{ expiresAt: ago(1) }, 'attention', 'connection_expiring'],
    [{ expiresAt: ago(1), isRenewable: false }, 'down', 'connection_lost'],
    [{ refreshStartedAt: ago(3600) }, 'attention', 'connection_expiring'],
    [{ withoutWebhook: { count: 5, since: ago(600) } }, 'attention', 'webhooks_missing'],
    [
      { endpoints: { stopped: 1, stoppedSince: ago(60), failing: 2 } },
      'attention',
      'endpoint_stopped',
    ],
    [
      { endpoints: { stopped: 0, stoppedSince: null, failing: 2 } },
      'attention',
      'endpoint_failing',
    ],
    [{ withoutWebhook: { count: 4, since: ago(600) } }, 'ok', null],
    [{}, 'ok', null],
  ] as const)('%j is %s: %s', (over, state, cause) => {
    const { connections } = deriveHealth(observed({ connections: [connectionSeen(over)] }), now)
    expect(connections[0]).toMatchObject({ client, state, cause })
  })
})

describe('a flow', () => {
  const flowSeen = (over: Partial<FlowSeen> = {}): FlowSeen => ({
    flow: 'articles',
    pollIntervalMs: 60_000,
    isPaused: false,
    pausedAt: null,
    isLimited: false,
    isPolling: false,
    dueSince: null,
    accessLost: null,
    askedAt: null,
    lastPollAt: ago(30),
    lastSuccessAt: ago(30),
    lastError: null,
    destinations: [],
    ...over,
  })
  const sending = (state: FlowSeen['destinations'][number]['sending']['state'], pending = 40) => ({
    name: 'shop',
    accessLost: null,
    sending: { state, cause: '503', since: ago(600), nextAttemptAt: ago(-30) },
    pending,
    oldestWaitingAt: pending > 0 ? ago(600) : null,
    failed: 0,
  })
  const derive = (seen: FlowSeen) => deriveHealth(observed({ flows: [seen] }), now).flows[0]

  test('needs attention while sending to one of its destinations is suspended', () => {
    expect(derive(flowSeen({ destinations: [sending('open')] }))).toMatchObject({
      flow: 'articles',
      state: 'attention',
      cause: 'destination_failing',
      since: ago(600),
      destinations: [
        {
          name: 'shop',
          state: 'down',
          cause: 'destination_failing',
          pending: 40,
          nextTryAt: ago(-30),
        },
      ],
    })
    expect(derive(flowSeen({ destinations: [sending('flowing', 0)] }))).toMatchObject({
      state: 'ok',
    })
  })

  const lost = { since: ago(600), code: 'invalid_grant', place: `\${env:TOKEN}` }

  test('with a destination that lost its access names the destination and the place of the new token', () => {
    const destinations = [{ ...sending('open'), accessLost: lost }]
    const derived = derive(flowSeen({ destinations }))
    expect(derived).toMatchObject({
      state: 'attention',
      cause: 'access_lost',
      about: { destination: 'shop' },
      destinations: [{ state: 'down', cause: 'access_lost', since: lost.since }],
    })
    const [one] = derived?.destinations ?? []
    if (!one) throw new Error('no destination')
    expect(messageOf(one, 'es', now)).toBe(
      `El emisor del acceso ya no lo renueva (invalid_grant) desde hace 10 minutos. Autorizá la aplicación otra vez, poné el nuevo refresh token en \${env:TOKEN} y releé los archivos de flujos.`,
    )
  })

  test('gives the time until the next attempt as a duration, because shops have different time zones', () => {
    const [suspended] = derive(flowSeen({ destinations: [sending('open')] }))?.destinations ?? []
    if (!suspended) throw new Error('no destination')
    expect(messageOf(suspended, 'en', now)).toBe(
      'The destination fails: sending is suspended for 10 minutes. Pending deliveries: 40. Next attempt in 30 seconds. Check that it answers.',
    )
    expect(messageOf(suspended, 'es', now)).toContain('Próximo intento en 30 segundos')
  })

  test.each([
    [{ isPaused: true }, 'attention', 'flow_paused'],
    [{ isLimited: true }, 'attention', 'flow_limited'],
    [{ lastError: 'refused' }, 'attention', 'source_failing'],
    [{ lastError: 'refused', lastSuccessAt: ago(181) }, 'down', 'source_failing'],
    [{ lastError: 'refused', lastSuccessAt: null }, 'down', 'source_failing'],
    [{ accessLost: lost }, 'down', 'access_lost'],
    [{ accessLost: lost, isPaused: true }, 'attention', 'flow_paused'],
    [{ askedAt: ago(30) }, 'attention', 'question_open'],
    [{ lastPollAt: null }, 'unknown', 'never_polled'],
    [{ lastPollAt: ago(300), dueSince: ago(181) }, 'down', 'not_polled'],
    [{ lastPollAt: ago(300), dueSince: ago(181), isPolling: true }, 'ok', null],
    [{ lastPollAt: ago(300), dueSince: ago(60) }, 'ok', null],
    [{}, 'ok', null],
  ] as const)('%j is %s: %s', (over, state, cause) => {
    expect(derive(flowSeen(over))).toMatchObject({ state, cause })
  })
})

test('every box of every client is listed with the ids of the ERP', () => {
  const boxes = [boxSeen(), boxSeen({ cajaId: 'CAJA-2', sucursalId: 'SUC-2' })]
  expect(
    deriveHealth(observed({ boxes }), now).boxes.map(({ cajaId, sucursalId, terminalId }) => ({
      cajaId,
      sucursalId,
      terminalId,
    })),
  ).toEqual([
    { cajaId: 'CAJA-1', sucursalId: 'SUC-1', terminalId: 'T-1' },
    { cajaId: 'CAJA-2', sucursalId: 'SUC-2', terminalId: 'T-1' },
  ])
})

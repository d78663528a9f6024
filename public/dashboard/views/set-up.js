import { ApiError } from '../../shared/api.js'
import { h } from '../../shared/dom.js'
import { startOfToday } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { icon } from '../../shared/icons.js'
import { askInvitation, askKey, connectAddress } from '../client-actions.js'
import { askTestCharge } from '../test-charge.js'

/** How far one client is on the way to its first charge; undefined when it has charged before. */
export async function readSetUp(app, row, signal) {
  const { total } = await app.getOrders({ limit: 1 }, signal)
  if (total > 0 && row.connection === 'connected' && row.active_keys > 0) return undefined
  const { boxes } = await app.getStatistics({ from: startOfToday() }, signal)
  const ready = boxes.length > 0 ? await readyBoxes(app, row, signal) : []
  return {
    row,
    ready,
    done: {
      connect: row.connection === 'connected',
      key: row.active_keys > 0,
      boxes: boxes.length > 0,
      terminal: ready.length > 0,
      charge: total > 0,
    },
  }
}

/** Boxes with a terminal that the ERP controls. What the provider does not tell is not done yet. */
async function readyBoxes(app, { client, connection }, signal) {
  if (connection !== 'connected') return []
  try {
    const { terminals } = await app.api.get('/terminals', { client }, signal)
    const ready = terminals.filter(
      ({ caja_id: box, operating_mode: mode }) => box !== null && mode === 'PDV',
    )
    return [...new Set(ready.map(({ caja_id: box }) => box))]
  } catch (error) {
    if (error instanceof ApiError && error.status !== 401) return []
    throw error
  }
}

/** The steps to a first charge; the first one that is not done says what to do. */
export function setUpPanel(app, { row, ready, done }) {
  const steps = Object.keys(done)
  const next = steps.find((step) => !done[step])
  return h(
    'section',
    { key: 'set-up', class: 'panel' },
    h('h2', null, t('setUp.title', { client: row.client })),
    h(
      'ol',
      { class: 'steps' },
      steps.map((step) =>
        h(
          'li',
          {
            key: step,
            class: done[step] ? 'good' : 'quiet',
            'aria-current': step === next ? 'step' : null,
          },
          h(
            'p',
            { class: step === next ? 'strong' : null },
            done[step] && [icon('check'), h('span', { class: 'visually-hidden' }, t('setUp.done'))],
            ' ',
            t(`setUp.${step}`),
          ),
          step === next && [
            h('p', { class: 'soft' }, t(`setUp.${step}Hint`)),
            h('div', { class: 'buttons' }, actionOf(app, { row, ready }, step)),
          ],
        ),
      ),
    ),
  )
}

function actionOf(app, { row, ready }, step) {
  const button = (text, onclick) =>
    h('button', { key: text, type: 'button', class: 'button', onclick }, text)
  const link = (text, href) => h('a', { key: text, class: 'button', href }, text)
  const { client } = row
  switch (step) {
    case 'connect':
      return [
        link(t('clients.connect'), connectAddress(client)),
        button(t('clients.invite'), () => askInvitation(app, client)),
      ]
    case 'key':
      return button(t('clients.newKey'), () => askKey(app, client))
    case 'boxes':
      return link(t('setUp.docs'), '/docs')
    case 'terminal':
      return link(t('setUp.toBoxes'), app.link('stores', undefined, { client }))
    default:
      return [
        button(t('test.button'), () => askTestCharge(app, client, ready)),
        link(t('setUp.docs'), '/docs'),
      ]
  }
}

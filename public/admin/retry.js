import { ask } from '../shared/dialog.js'
import { errorSentence } from '../shared/errors.js'
import { name } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { toast } from '../shared/notices.js'

/** Answers how many deliveries are sent again. `filter` is `{ flow, destination, pk, error }`; what is left out is any. */
function send(app, { flow, ...filter }) {
  return app.api.post(`/flow/${encodeURIComponent(flow)}/retry`, { body: filter })
}

/** Sends one delivery or one group again, at once: trying again what failed can do no harm that the first try could not. */
export async function retry(app, filters, button) {
  button.disabled = true
  try {
    toast(count('retry.done', await sendAll(app, filters)))
  } catch (error) {
    toast(errorSentence(error))
  }
  button.disabled = false
  app.reload()
}

async function sendAll(app, filters) {
  let total = 0
  for (const filter of filters) total += (await send(app, filter)).retried
  return total
}

/** Everything that failed in these flows. */
export function askRetry(app, filters) {
  ask({
    title: t('retry.title'),
    content: () =>
      html`<p>${t('retry.text')}</p>
        <ul>
          ${filters.map(({ flow }) => html`<li>${name(flow)}</li>`)}
        </ul>`,
    confirm: t('retry.all'),
    async run() {
      toast(count('retry.done', await sendAll(app, filters)))
      app.reload()
    },
  })
}

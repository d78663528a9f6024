import './texts/use.js'
import { closeDialogs } from '../shared/dialog.js'
import { patch } from '../shared/dom.js'
import { setLanguage, t } from '../shared/i18n.js'
import { languageButton } from '../shared/language-button.js'
import { forgetToken, storedToken, storeToken } from '../shared/session.js'
import { createSignIn } from './sign-in.js'
import { startWorkspace } from './workspace.js'

/** Works without a token until the service asks for one. */
const root = document.getElementById('app')

let workspace
let show

function redraw() {
  patch(root, [show()])
}

function onLanguage(language) {
  setLanguage(language)
  redraw()
  workspace?.reload()
}

function askForToken(reason) {
  workspace?.stop()
  workspace = undefined
  closeDialogs()
  forgetToken()
  document.title = 'tillbridge'
  show = createSignIn({
    redraw,
    reason,
    languageButton: () => languageButton(onLanguage),
    onToken(token) {
      storeToken(token)
      work(token)
    },
  })
  redraw()
  document.getElementById('token')?.focus()
}

function work(token) {
  workspace = startWorkspace({
    token,
    redraw,
    onLanguage,
    onUnauthorized: () => askForToken(token === undefined ? undefined : t('signIn.ended')),
    onSignOut: () => askForToken(),
  })
  show = () => workspace.view()
  redraw()
}

work(storedToken() ?? undefined)

/** The pages for the owner of a shop who connects an account. */
export const connect = {
  'connect.request_id': 'When asking for help, quote:',
  'connect.continue': 'Continue at Mercado Pago',
  'connect.connected.title': 'The account is connected',
  'connect.connected.advice': 'You may close this window.',
  'connect.invited.title': 'Connect the Mercado Pago account',
  'connect.invited.advice':
    'This shop will charge, and can refund, with the account you log in to in the next step. Go on only if you know it and expected this invitation.',
  'connect.on_the_way.title': 'Continue at Mercado Pago',
  'connect.on_the_way.advice': 'If the page does not open by itself, use the button.',

  'connect.bad_link.title': 'This link is not complete',
  'connect.bad_link.advice':
    'Open it again exactly as you received it, or ask the sender for a new one.',
  'connect.provider_failed.title': 'The account is not connected',
  'connect.provider_failed.advice':
    'Mercado Pago did not answer as expected. Wait a few minutes and open the connection link again; if it was an invitation, ask for a new one.',
  'connect.unavailable.title': 'The service cannot help you right now',
  'connect.unavailable.advice': 'Try again in a few minutes.',
  'connect.OAUTH_DENIED.title': 'The connection was not authorised',
  'connect.OAUTH_DENIED.advice':
    'The account is not connected. If that was a mistake, open the connection link again; if it was an invitation, ask for a new one.',
  'connect.OAUTH_STATE_INVALID.title': 'This attempt to connect is over',
  'connect.OAUTH_STATE_INVALID.advice':
    'It was used before, more than ten minutes have passed, or it began in another browser. If you saw that the account is connected, nothing is missing. If not, open the connection link again; if it was an invitation, ask for a new one.',
  'connect.INVITATION_INVALID.title': 'This invitation is no longer valid',
  'connect.INVITATION_INVALID.advice':
    'An invitation works once, within a day. Ask the sender for a new one.',
  'connect.FORBIDDEN.title': 'You need an invitation',
  'connect.FORBIDDEN.advice':
    'This connection begins with an invitation link. Ask the administrator of the service for one.',
  'connect.UNKNOWN_HOST.title': 'This is not the address of the service',
  'connect.UNKNOWN_HOST.advice':
    'Open the link exactly as you received it. If you did, tell the administrator of the service.',
  'connect.OAUTH_ALREADY_CONNECTED.title': 'The account is connected already',
  'connect.OAUTH_ALREADY_CONNECTED.advice': 'Nothing is missing: you may close this window.',
  'connect.API_KEY_REQUIRED.title': 'This shop cannot connect',
  'connect.API_KEY_REQUIRED.advice':
    'All of its keys were revoked. Talk to the administrator of the service.',
  'connect.ACCOUNT_MISMATCH.title': 'Another account was chosen',
  'connect.ACCOUNT_MISMATCH.advice':
    'This shop belongs to another Mercado Pago account. Open the connection link again and log in with that account; to change it, talk to the administrator of the service.',
  'connect.RATE_LIMITED.title': 'Too many attempts',
  'connect.RATE_LIMITED.advice': 'Wait a minute and open the link again.',
} as const

/** Why there is no access token. */
export const access = {
  TOKEN_FAILED: 'no access token: {said}',
  TOKEN_NOT_IN_ANSWER: 'the answer has none',
  TOKEN_REFUSED: 'no access token: {said}; see tokenUrl, clientId, clientSecret and clientAuth',
  TOKEN_SEALED:
    'no access token: it is sealed with the key {key}, which this process was not given (ENCRYPTION_KEYS)',
  TOKEN_RENEWED_ELSEWHERE:
    'no access token yet: another process renews it, or was cut while it did',
  ACCESS_LOST_KEY:
    'no access token: the encryption key of the newest refresh token was lost. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and reload the flow files. Until then nothing is sent or read with it, and nothing is lost.',
  ACCESS_LOST_FIRST:
    'no access token: the issuer refused the refresh token ({code}); the first one is wrong, too old, or was used elsewhere already. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and reload the flow files. Until then nothing is sent or read with it, and nothing is lost.',
  ACCESS_LOST_LATER:
    'no access token: the issuer refused the refresh token ({code}); it was revoked, another installation used it, or it came back with a restored backup. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and reload the flow files. Until then nothing is sent or read with it, and nothing is lost.',
  ACCESS_LOST_CUT:
    'no access token: the issuer refused the refresh token ({code}). A renewal of {at} ended before its answer was stored, so the new token is lost. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and reload the flow files. Until then nothing is sent or read with it, and nothing is lost.',
} as const

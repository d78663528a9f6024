/** Why an alert did not reach its receiver; `{status}` is what the mail server answered. */
export const alerts = {
  ALERT_NOT_SENT: 'the request was not made',
  SIGNING_SECRET_WRONG: 'the secret begins with {prefix}, but what follows is not base64',
  MAIL_NOT_SET_UP: 'SMTP_URL and MAIL_FROM are not set',
  MAIL_PARTLY_REFUSED: 'the mail server refused {refused} of {all} addresses',
  MAIL_LATE: 'the mail server did not accept the mail within {seconds} s',
  MAIL_LOGIN_REFUSED: 'the mail server refused the login[ ({status})]',
  MAIL_SERVER_UNKNOWN: 'the name of the mail server was not found[ ({status})]',
  MAIL_NOT_SECURE: 'no secure connection to the mail server[ ({status})]',
  MAIL_SERVER_SILENT: 'the mail server did not answer in time[ ({status})]',
  MAIL_NO_CONNECTION: 'no connection to the mail server[ ({status})]',
  MAIL_ADDRESSES_REFUSED: 'the mail server refused the sender or the addresses[ ({status})]',
  MAIL_NOT_ACCEPTED: 'the mail server did not accept the mail[ ({status})]',
} as const

/** The mark of the product. */
export function Mark({ size = 24 }: { size?: number }) {
  return (
    <svg viewBox="0 0 24 24" width={size} height={size} aria-hidden="true">
      <rect width="24" height="24" rx="6" fill="#3446C4" />
      <path d="M5 7h14M7.500 11v6M12 11v6M16.500 11v6" stroke="#fff" strokeWidth="2.400" strokeLinecap="round" />
    </svg>
  );
}
